// Oddities of an input that was read nevertheless: counted by kind, each with the first place where
// it occurred. After the first 100 kinds, all others are counted as one. One owner, one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

class Warnings {
 public:
  struct Kind {
    std::string what;         // "X events without dur, taken as 0"
    std::string first_place;  // "run.json: event 17"
    std::int64_t count = 0;
  };

  void add(std::string_view what, std::string_view place, std::int64_t count = 1);
  void add(const Warnings& others);

  bool empty() const { return kinds_.empty(); }
  const std::vector<Kind>& kinds() const { return kinds_; }  // in order of first occurrence
  // One line each: "run.json: event 17: X events without dur, taken as 0 (12 in all)".
  std::string text() const;

 private:
  std::vector<Kind> kinds_;
};

}  // namespace pipesim
