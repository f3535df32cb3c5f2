"""Reports: HTML pages about runs (`dhsic.reports.html`), and sentences for messages."""
