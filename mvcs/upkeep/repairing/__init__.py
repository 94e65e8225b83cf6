"""repair: what fsck found is mended from copies, and what is lost is said."""
