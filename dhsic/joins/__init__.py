"""Labels and covariates joined with samples: by name, or by position where somebody says so."""
