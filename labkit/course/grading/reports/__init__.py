"""Reports about a class that has been graded.

    report       writes a table, Parquet files, a page per student and a notebook for the class
    class_page   the page about the class, with totals, the hardest exercises, and who passed which
    gradebook    points per exercise and student, as CSV

The modules read results and write files, but do not grade. Read `report` first.
"""
