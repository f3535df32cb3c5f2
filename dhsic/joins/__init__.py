"""Join of labels and covariates with samples: by name, or by position on request."""
