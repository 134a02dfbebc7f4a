// Text in pictures.
#pragma once

#include <string>
#include <vector>

#include "demo/picture.h"

namespace demo {

struct Colour {
    float r, g, b;
};

/// One colour over a pixel; outside the picture nothing happens.
void blend(Picture &picture, int x, int y, Colour colour, float opacity);

/// DejaVu Sans, as Debian's fonts-dejavu-core installs it. Without that file, text takes no room and draws nothing.
class Font {
public:
    Font();

    bool available() const { return !file_.empty(); }

    /// Draws one line of ASCII; (x, y) is the left end of its base line. Returns where it ends.
    float draw(Picture &picture, float x, float y, float size, Colour colour, const std::string &text) const;

private:
    std::vector<unsigned char> file_;
};

}  // namespace demo
