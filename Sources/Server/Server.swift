// Server: see the files beside this one.
