"""How prepare_data reads tables (CSV, Parquet, JSON Lines), checks them, splits them and writes shards."""
