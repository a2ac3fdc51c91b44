"""Reading between the elements of lines, pictures and volumes."""
