"""exocomp: from a finished apply to machines that are onboarded, configured and stay converged."""

__version__ = "0.1.0"
