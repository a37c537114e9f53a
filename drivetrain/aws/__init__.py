"""AWS and what speaks the protocols of its services: boto3's session, one client of S3; boto3 is imported when used."""
