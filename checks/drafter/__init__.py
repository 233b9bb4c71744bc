"""The drafter doctor: what a draft model's files say, judged against its target and one engine version."""
