// Colours of chunks: as many as there are, each still its kind's.
#include "traces/draw/colours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace pipesim {
namespace {

constexpr std::array kinds{colours::forward, colours::backward, colours::weight_gradient,
                           colours::other};

int channel(Rgb colour, int shift) { return static_cast<int>(colour >> shift & 0xff); }

int distance(Rgb one, Rgb other) {
  int sum = 0;
  for (const int shift : {16, 8, 0}) {
    const int apart = channel(one, shift) - channel(other, shift);
    sum += apart * apart;
  }
  return sum;
}

// Between the hues of two colours, in radians; grey is taken away.
double angle(Rgb one, Rgb other) {
  const auto hue = [](Rgb colour) {
    const int red = channel(colour, 16);
    const int green = channel(colour, 8);
    const int blue = channel(colour, 0);
    return std::atan2(std::sqrt(3.) * (green - blue), 2. * red - green - blue);
  };
  const double apart = std::abs(hue(one) - hue(other));
  return std::min(apart, 2 * std::numbers::pi - apart);
}

TEST(Colours, MixFromOneToTheOther) {
  EXPECT_EQ(mix(0x102030, 0xffffff, 0), 0x102030U);
  EXPECT_EQ(mix(0x102030, 0xff00a0, 256), 0xff00a0U);
  EXPECT_EQ(mix(0x000000, 0x80ff40, 128), 0x407f20U);
  EXPECT_TRUE(is_light(0xffffff));
  EXPECT_FALSE(is_light(0x000000));
}

TEST(Colours, GoFromChunkToChunkEvenlyTowardsHalfOfThePaper) {
  for (const Colour& kind : kinds) {
    for (const int chunks : {2, 3, 4, 7}) {
      const Colour first = lighter(kind, 0, chunks);
      EXPECT_EQ(first.light, kind.light);
      EXPECT_EQ(first.dark, kind.dark);
      EXPECT_EQ(first.terminal, kind.terminal);
      for (int chunk = 1; chunk < chunks; ++chunk) {
        const Colour made = lighter(kind, chunk, chunks);
        for (const int shift : {16, 8, 0}) {
          for (const auto& [from, to, own] :
               {std::array{kind.light, colours::paper.light, made.light},
                std::array{kind.dark, colours::paper.dark, made.dark}}) {
            const double share = 0.5 * chunk / (chunks - 1);
            EXPECT_NEAR(channel(own, shift),
                        channel(from, shift) + (channel(to, shift) - channel(from, shift)) * share,
                        2);
          }
        }
      }
    }
  }
}

// The hue of the last chunk is that of its own kind, and kinds stay apart.
TEST(Colours, OfAllChunksAreTheirKinds) {
  for (const auto in_theme : {&Colour::light, &Colour::dark}) {
    for (const Colour& kind : kinds) {
      const Rgb last = lighter(kind, 1, 2).*in_theme;
      EXPECT_GT(distance(last, kind.*in_theme), 4'000);
      for (const Colour& other : kinds) {
        if (other.light == kind.light) continue;
        EXPECT_LT(angle(last, kind.*in_theme), angle(last, other.*in_theme));
        EXPECT_GT(distance(last, lighter(other, 1, 2).*in_theme), 1'200);
      }
    }
  }
}

TEST(Colours, OfOneChunkAreFull) {
  EXPECT_EQ(lighter(colours::forward, 0, 1).light, colours::forward.light);
  EXPECT_EQ(lighter(colours::forward, 3, 1).light, colours::forward.light);
}

// 0x7fb8d8 is nearest to 0x87afd7; what terminals don't show they don't show lighter.
TEST(Colours, OfTerminalsAreTheNearest) {
  EXPECT_EQ(lighter(colours::forward, 1, 2).light, 0x7fb8d8U);
  EXPECT_EQ(lighter(colours::forward, 1, 2).terminal, 16 + 36 * 2 + 6 * 3 + 4);
  EXPECT_EQ(lighter(colours::neutral, 1, 2).terminal, 232 + 20);  // 0xcccccc by 0xd0d0d0
  EXPECT_EQ(lighter(colours::late, 1, 2).terminal, -1);
}

}  // namespace
}  // namespace pipesim
