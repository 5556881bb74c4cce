// Ctrl-C during long calls. Python runs the handlers of signals only on its main thread and with
// the GIL, which the core does not hold while it works: the calling thread polls for them.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <cstddef>

namespace nb = nanobind;

namespace pqr::bind {

class Signals {
 public:
  // Whether to stop, because a handler has raised an exception. Cheap, and safe on any thread.
  bool operator()() {
    if (PyThread_get_thread_ident() == caller_ && polls_ && Clock::now() >= next_) poll();
    return raised_;
  }

  // The same for a loop over rows, before row r: every 64th, since reading a clock takes as long as
  // a short row.
  bool at(std::size_t r) { return r % 64 == 0 && (*this)(); }

  // With the GIL again: raises that exception.
  void check() const {
    if (raised_) throw nb::python_error();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto interval = std::chrono::milliseconds(50);  // people hardly notice

  unsigned long caller_ = PyThread_get_thread_ident();
  bool polls_ = true;  // until it turns out that the caller is not the main thread
  Clock::time_point next_ = Clock::now() + interval;
  std::atomic<bool> raised_{false};

  void poll() {
    const nb::gil_scoped_acquire acquire;
    try {  // any call of Python may run a handler
      const auto main = nb::module_::import_("threading").attr("main_thread")();
      polls_ = main.attr("ident").equal(nb::int_(caller_));
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    } catch (nb::python_error& error) {
      error.restore();
      raised_ = true;
      polls_ = false;
    }
    next_ = Clock::now() + interval;
  }
};

}  // namespace pqr::bind
