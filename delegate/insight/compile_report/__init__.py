"""Tell what the compiler did, as one JSON document and as one page of HTML."""
