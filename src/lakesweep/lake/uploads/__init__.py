"""How bytes come in: streams, multipart uploads, links of issued addresses, imports."""
