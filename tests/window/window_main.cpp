// main() of tests of the window.
#include <gtest/gtest.h>

#include <QApplication>

#include "gui/window/letters.h"
#include "gui/window/look.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  QApplication application(argc, argv);
  pipesim::gui::load_fonts();
  pipesim::gui::set_look(pipesim::gui::Theme::light);
  return RUN_ALL_TESTS();
}
