"""Determines which situations a run reached, and creates scenarios for situations that few runs
reach.

    situations_reached   defines activities and situations, and finds them in a run's events
    covered_situations   the situations that a search counts
    mutations            changes a scenario so that it may reach a situation
    targeting            chooses a rare situation, and the scenario to mutate

Start with `situations_reached`.
"""
