"""The table of a model's answers: one format that evaluate and batch_predict write, and that evaluate reads.

    row         int64: the place in the data, from 0
    key         the data's key, where it has one; the table of another program may use the name of the data's column
    target      the right answer; optional, and it must agree with the data
    predicted   the answer: a class, a label each, or a number; optional where scores say it
    score       binary: the probability of class 1
    score_<c>   multiclass and multilabel: the probability of class c, its number or its name
    margin      binary: the number by which samples are ranked: log-odds beside a score, any finite number without one
    margin_<c>  the same of class c
    low, high   regression: the ends of an interval, for its coverage and width
    text        a text, in place of `predicted`
    loss        the loss of the row; evaluate writes it and does not read it

Answers with several values a row are lists, and so are the scores of more than 256 classes.
"""

ROW, KEY, TARGET, PREDICTED, SCORE, MARGIN, TEXT = "row", "key", "target", "predicted", "score", "margin", "text"
LOW, HIGH, LOSS = "low", "high", "loss"
ENDS = "ends"
"""True in the manifest of a table of ours whose `low` and `high` are of the model, and no columns that were kept."""
