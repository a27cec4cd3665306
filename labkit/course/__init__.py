"""The course: lessons, exercises that run a learner's code inside the system, and grading.

    lessons/    the sources of the notebooks, and the program that builds them
    exercises/  the exercises of each lesson
    checking/   judges an answer: `check`, its cards, hints and generated cases
    runs/       the runs that lessons and exercises share
    workshop/   tracks in which learners build their own bookie and client
    grading/    judges the notebooks of a class, each in a sandbox

An answer is never compared with a stored one: the learner's function takes the place of labkit's
own, and the real code runs with it.

Read `checking/exercise.py` and `exercises/entry.py` first.
"""
