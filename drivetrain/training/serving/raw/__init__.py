"""Raw values of requests in place of columns, one file a reader: the text of a review for tokens."""
