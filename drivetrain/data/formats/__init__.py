"""The formats that tables are read from, a file each."""
