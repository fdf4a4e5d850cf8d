"""The S3 endpoint: HTTP in front, the user's bucket behind, the codec between."""
