#pragma once

namespace basalt::rt {

// For programs that run until they are told to stop: blocks SIGINT, SIGTERM and SIGHUP in the calling thread and in all
// threads started after it, so that one thread can wait for them. Call it first thing, before any thread is started.
// SIGPIPE is ignored from then on: a closed connection is an error of that write.
void block_stop_signals();

// Waits for one of them and returns its number. Only after block_stop_signals(), on the operating system's runtime.
int wait_for_stop_signal();

}  // namespace basalt::rt
