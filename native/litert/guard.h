// Keeps exceptions on this side of the C boundary.
#pragma once

#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "litert_abi.h"

namespace rk3588::litert {

// A failure that LiteRT has a status of its own for.
class StatusError : public std::exception {
 public:
  StatusError(Status status, std::string text) : status_(status), text_(std::move(text)) {}
  Status status() const { return status_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Status status_;
  std::string text_;
};

// What a pointer of LiteRT's points to. Throws StatusError where it is null.
template <typename T>
T& required(T* pointer) {
  if (pointer == nullptr) throw StatusError(kInvalidArgument, "a handle is null");
  return *pointer;
}

// Runs `body`. LiteRT passes no texts on: what is thrown becomes one line on stderr and a status.
template <typename Body>
Status guarded(Body body) noexcept {
  const auto say = [](const char* text) { std::fprintf(stderr, "rk3588 delegate: %s\n", text); };
  try {
    body();
    return kOk;
  } catch (const StatusError& error) {
    say(error.what());
    return error.status();
  } catch (const std::bad_alloc&) {
    say("memory ran out");
    return kMemoryFailure;
  } catch (const std::exception& error) {
    say(error.what());
  } catch (...) {
    say("unknown failure");
  }
  return kRuntimeFailure;
}

}  // namespace rk3588::litert
