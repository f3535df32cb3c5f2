"""Reports: HTML pages about runs (`html`), and sentences about runs for messages (`sentences`)."""
