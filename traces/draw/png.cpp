// Renders a draw list to pixels, and these to a PNG.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <new>
#include <vector>

#include "traces/base/error.h"
#include "traces/draw/draw_list.h"
#include "traces/draw/letters.h"

namespace pipesim {
namespace {

// Compresses for stb_image_write, which owns the result: zlib compresses better than its own code.
unsigned char* packed(unsigned char* data, int size, int* packed_size, int /*quality*/) {
  uLongf room = compressBound(static_cast<uLong>(size));
  auto* out = static_cast<unsigned char*>(std::malloc(room));
  if (out == nullptr || compress2(out, &room, data, static_cast<uLong>(size), 9) != Z_OK) {
    std::free(out);
    return nullptr;
  }
  *packed_size = static_cast<int>(room);
  return out;
}

}  // namespace
}  // namespace pipesim

#define STBIW_ZLIB_COMPRESS pipesim::packed
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

namespace pipesim {
namespace {

class Image {
 public:
  Image(int width, int height, Rgb ground)
      : width_(width),
        height_(height),
        pixels_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3) {
    fill(0, 0, width, height, ground);
  }

  void fill(int x, int y, int width, int height, Rgb colour, int opacity = 255) {
    for (int row = std::max(y, 0); row < std::min(y + height, height_); ++row) {
      for (int column = std::max(x, 0); column < std::min(x + width, width_); ++column) {
        mix(column, row, colour, opacity);
      }
    }
  }

  // `share` of 255 of the colour.
  void mix(int x, int y, Rgb colour, int share) {
    if (x < 0 || y < 0 || x >= width_ || y >= height_ || share <= 0) return;
    unsigned char* pixel =
        &pixels_[(static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
                  static_cast<std::size_t>(x)) *
                 3];
    for (const int shift : {16, 8, 0}) {
      const int above = static_cast<int>(colour >> shift & 0xff);
      *pixel = static_cast<unsigned char>((*pixel * (255 - share) + above * share + 127) / 255);
      ++pixel;
    }
  }

  // The covered part of each pixel near a shape, by 4 x 4 samples.
  template <typename Within>
  void shape(double left, double top, double right, double bottom, Rgb colour, Within&& within) {
    for (int y = static_cast<int>(std::floor(top)); y <= bottom; ++y) {
      for (int x = static_cast<int>(std::floor(left)); x <= right; ++x) {
        int inside = 0;
        for (int i = 0; i < 16; ++i) {
          inside += within(x + (i % 4 + 0.5) / 4, y + (i / 4 + 0.5) / 4) ? 1 : 0;
        }
        mix(x, y, colour, inside * 255 / 16);
      }
    }
  }

  std::string png() const {
    std::string out;
    const auto take = [](void* to, void* data, int size) {
      static_cast<std::string*>(to)->append(static_cast<const char*>(data),
                                            static_cast<std::size_t>(size));
    };
    if (stbi_write_png_to_func(take, &out, width_, height_, 3, pixels_.data(), width_ * 3) == 0) {
      throw std::bad_alloc();
    }
    return out;
  }

 private:
  int width_, height_;
  std::vector<unsigned char> pixels_;
};

void draw_box(Image& image, const DrawList::Box& box) {
  if (box.filled) image.fill(box.x, box.y, box.width, box.height, box.fill, box.opacity);
  if (!box.framed || box.width <= 0 || box.height <= 0) return;
  image.fill(box.x, box.y, box.width, 1, box.frame);
  image.fill(box.x, box.y + box.height - 1, box.width, 1, box.frame);
  image.fill(box.x, box.y, 1, box.height, box.frame);
  image.fill(box.x + box.width - 1, box.y, 1, box.height, box.frame);
}

void draw_area(Image& image, const DrawList::Area& area) {
  int last = area.height;
  for (std::size_t i = 0; i < area.tops.size(); ++i) {
    const int x = area.x + static_cast<int>(i);
    const int top = std::clamp<int>(area.tops[i], 0, area.height);
    if (top < area.height) {
      if (area.filled) image.fill(x, area.y + top, 1, area.height - top, area.fill);
      const int before = last < area.height ? last : top;
      image.fill(x, area.y + std::min(top, before), 1, std::abs(top - before) + 1, area.line);
    }
    last = top;
  }
}

void draw_line(Image& image, const DrawList::Line& line) {
  const double x1 = line.x1 + 0.5, y1 = line.y1 + 0.5, x2 = line.x2 + 0.5, y2 = line.y2 + 0.5;
  const double dx = x2 - x1, dy = y2 - y1;
  const double length = std::hypot(dx, dy);
  const double half = line.width / 2.0;
  image.shape(std::min(x1, x2) - half, std::min(y1, y2) - half, std::max(x1, x2) + half,
              std::max(y1, y2) + half, line.colour, [&](double x, double y) {
                if (length < 1e-9) return std::hypot(x - x1, y - y1) <= half;
                const double along = ((x - x1) * dx + (y - y1) * dy) / length;
                const double aside = std::abs((x - x1) * dy - (y - y1) * dx) / length;
                const bool is_gap = line.dashed && std::fmod(std::max(along, 0.0), 10) >= 6;
                return along >= 0 && along <= length && aside <= half && !is_gap;
              });
  if (!line.arrow || length < 1) return;
  const double size = 4 + 2 * line.width;  // as in an SVG
  image.shape(x2 - size, y2 - size, x2 + size, y2 + size, line.colour, [&](double x, double y) {
    const double back = ((x2 - x) * dx + (y2 - y) * dy) / length;
    const double aside = std::abs((x - x2) * dy - (y - y2) * dx) / length;
    return back >= 0 && back <= size && aside <= back / 2.5;
  });
}

void draw_text(Image& image, const DrawList::Text& text, const Letters& letters, int font_pixels) {
  const double free = text.width - letters.width(text.text);
  const double x = text.x + (text.align == DrawList::Align::left     ? 0
                             : text.align == DrawList::Align::centre ? free / 2
                                                                     : free);
  const int baseline =
      text.y + static_cast<int>(std::lround(text.height / 2.0 + font_pixels * 0.36));
  letters.draw(text.text, x, baseline, [&](int column, int row, int share) {
    if (column >= text.x && column < text.x + text.width) {
      image.mix(column, row, text.colour, share);
    }
  });
}

}  // namespace

std::string to_png(const DrawList& list, int font_pixels) {
  const std::int64_t bytes = std::int64_t{3} * list.width * list.height;
  constexpr std::int64_t most = 1'000'000'000;
  if (bytes > most) {
    throw work_error(fmt::format("a picture of {} x {} pixels is too large for a PNG; take an SVG",
                                 list.width, list.height));
  }
  Image image(list.width, list.height, list.background);
  const Letters regular(font_pixels, false);
  const Letters bold(font_pixels, true);
  const auto draw_texts = [&](const std::vector<DrawList::Text>& texts) {
    for (const auto& text : texts) draw_text(image, text, text.bold ? bold : regular, font_pixels);
  };
  for (const auto& box : list.grounds) draw_box(image, box);
  for (const auto& strip : list.strips) {
    for (std::size_t i = 0; i < strip.columns.size(); ++i) {
      image.fill(strip.x + static_cast<int>(i), strip.y, 1, strip.height, strip.columns[i]);
    }
    for (const auto& part : strip.parts) {
      image.fill(strip.x + part.column, strip.y + part.top, part.width, strip.height - part.top,
                 part.colour);
    }
  }
  for (const auto& area : list.areas) draw_area(image, area);
  for (const auto& box : list.boxes) draw_box(image, box);
  for (const auto& line : list.lines) draw_line(image, line);
  draw_texts(list.texts);
  for (const auto& box : list.covers) draw_box(image, box);
  draw_texts(list.cover_texts);
  return image.png();
}

}  // namespace pipesim
