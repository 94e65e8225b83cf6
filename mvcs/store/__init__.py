"""Where objects lie: backends, packs, and the verified way in and out of them."""
