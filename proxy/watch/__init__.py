"""What a machine's proxy looks like from beside it, told to CloudWatch and Auto Scaling. A process of its own."""
