"""The pages, one file each: its routes, and what its template is handed."""
