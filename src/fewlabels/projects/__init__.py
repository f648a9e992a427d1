"""A person's project: images in place, what is asked, what is told."""
