// EventLoop: see the files beside this one.
