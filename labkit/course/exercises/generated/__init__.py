"""Generated test cases for the exercises: realistic calls, most of which test the edge cases of a
rule.

storage  lessons 01 to 04 and 10
cluster  lessons 05 to 09 and 14
topics   lessons 11 to 13
uses     lesson 15
"""
