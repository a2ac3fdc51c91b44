"""Commands that write a model in another form."""
