"""Why a wrong prediction is wrong: the likely wrong values of each prediction, by lesson.

`compare` shows these explanations.  They are here and not in the notebooks, where a learner would
read them before predicting.

    prediction   a prediction's likely wrong values, and the sentence for any other wrong value
    lesson_NN    PREDICTIONS, the predictions of lesson NN by name
"""
