"""The concept inventory consists of 20 questions about common misconceptions, which are asked
before and after the course.

labkit computes the right answer to each question by running its own code with the numbers drawn
from the seed. Each wrong option follows from a certain belief, so the answers of a class show which
beliefs its students hold, and whether the course has changed these beliefs.

    question       a question and its options, drawn from a seed
    storage, replication, topics   the questions, grouped by part of the system
    questions      the list of all questions
    sitting        asks the questions on the terminal, and saves the answers if the student agrees
    item_analysis  difficulty, discrimination and gain of each question, from a class's answers

Neither the questions nor the saved answers reveal which option is right. As with the exercises, the
solutions are part of labkit's code, and only `labkit grade` compares the students' answers with the
solutions.
"""
