"""Reading and writing the field's formats; what needs torch says so."""
