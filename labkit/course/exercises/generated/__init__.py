"""What the exercises' generated cases are drawn from: questions that can happen, at rules' edges.

storage  lessons 01 to 04 and 10
cluster  lessons 05 to 09 and 14
topics   lessons 11 to 13
uses     lesson 15
"""
