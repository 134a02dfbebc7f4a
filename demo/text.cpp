#include "demo/text.h"

#include <stb/stb_truetype.h>

#include <fstream>
#include <iterator>

namespace demo {

void blend(Picture &picture, int x, int y, Colour colour, float opacity) {
    if (x < 0 || y < 0 || x >= picture.width() || y >= picture.height()) {
        return;
    }
    const float over[3] = {colour.r, colour.g, colour.b};
    for (int c = 0; c < 3; c++) {
        float &pixel = picture.channel[c].at(x, y);
        pixel += opacity * (over[c] - pixel);
    }
}

Font::Font() {
    std::ifstream stream("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", std::ios::binary);
    file_.assign(std::istreambuf_iterator<char>(stream), {});
    stbtt_fontinfo font;
    if (available() && !stbtt_InitFont(&font, file_.data(), 0)) {
        file_.clear();
    }
}

float Font::draw(Picture &picture, float x, float y, float size, Colour colour, const std::string &text) const {
    stbtt_fontinfo font;
    if (!available() || !stbtt_InitFont(&font, file_.data(), 0)) {
        return x;
    }
    const float scale = stbtt_ScaleForMappingEmToPixels(&font, size);
    for (size_t i = 0; i < text.size(); i++) {
        int width = 0, height = 0, left = 0, top = 0, advance = 0;
        const int whole = int(x);
        unsigned char *glyph =
            stbtt_GetCodepointBitmapSubpixel(&font, scale, scale, x - float(whole), 0, text[i], &width, &height, &left, &top);
        for (int row = 0; row < height; row++) {
            for (int column = 0; column < width; column++) {
                blend(picture, whole + left + column, int(y) + top + row, colour, float(glyph[row * width + column]) / 255);
            }
        }
        stbtt_FreeBitmap(glyph, nullptr);
        stbtt_GetCodepointHMetrics(&font, text[i], &advance, nullptr);
        x += scale * float(advance);
        if (i + 1 < text.size()) {
            x += scale * float(stbtt_GetCodepointKernAdvance(&font, text[i], text[i + 1]));
        }
    }
    return x;
}

}  // namespace demo
