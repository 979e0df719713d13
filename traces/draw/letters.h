// Letters for pictures drawn without a window: a subset of DejaVu Sans, which the viewer also
// uses (fonts/LICENSE). Owns nothing but sizes; const use is thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace pipesim {

class Letters {
 public:
  // Pixels per em.
  Letters(int pixels, bool bold);
  ~Letters();
  Letters(const Letters&) = delete;
  Letters& operator=(const Letters&) = delete;

  // In pixels; of UTF-8.
  double width(std::string_view text) const;

  // Calls add(x, y, coverage of 255) for pixels of a text that begins at `x` on a baseline.
  using AddPixel = std::function<void(int, int, int)>;
  void draw(std::string_view text, double x, int baseline, const AddPixel& add) const;

 private:
  struct Font;
  double advance(int letter) const;

  std::unique_ptr<Font> font_;
};

}  // namespace pipesim
