"""The DAG as a picture, in SVG and in text."""
