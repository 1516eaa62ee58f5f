// Client: see the files beside this one.
