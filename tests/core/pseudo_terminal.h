// What tests of output on terminals share.
#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "tests/catch.h"

/// Sets an environment variable (nullptr: unsets it) as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Variable() { set(old_ ? old_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) { value != nullptr ? ::setenv(name_, value, 1) : ::unsetenv(name_); }
  const char* name_;
  std::optional<std::string> old_;
};

/// A terminal of 60 columns whose screen side can be read.
class Terminal {
 public:
  Terminal() : screen_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    REQUIRE(screen_ >= 0);
    REQUIRE(::grantpt(screen_) == 0);
    REQUIRE(::unlockpt(screen_) == 0);
    fd_ = ::open(::ptsname(screen_), O_RDWR | O_NOCTTY);
    REQUIRE(fd_ >= 0);
    const winsize size{24, 60, 0, 0};
    REQUIRE(::ioctl(fd_, TIOCSWINSZ, &size) == 0);
    REQUIRE(::fcntl(screen_, F_SETFL, O_NONBLOCK) == 0);
  }
  ~Terminal() {
    ::close(fd_);
    ::close(screen_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  int fd() const { return fd_; }
  std::string shown() const {
    std::string text;
    char block[4096];
    for (ssize_t size = 0; (size = ::read(screen_, block, sizeof block)) > 0;)
      text.append(block, static_cast<size_t>(size));
    return text;
  }

 private:
  int screen_;
  int fd_ = -1;
};
