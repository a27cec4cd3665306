"""Marks, and how they become SVG.

    scene         marks, scenes, and their SVG
    palette       colours
    text_metrics  measures and shortens text
    kin           the names of the things that marks show
    legend        explains symbols and colours
    plurals       numbers with nouns

These modules do not depend on any view, and scenes are immutable. Read `scene` first.
"""
