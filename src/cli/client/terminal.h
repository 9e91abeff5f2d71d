#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace basalt::cli {

// What the streams of the process are connected to.
struct Terminal {
  bool out_is_terminal = false;
  bool in_is_terminal = false;
  bool has_colours = false;
  std::size_t width = 0;  // columns; 0 = not limited
};

// Colours: only on a terminal, not if NO_COLOR is set to anything, not on TERM=dumb; CLICOLOR_FORCE=1 forces them.
// Width: what the terminal says, else COLUMNS, else 80; not limited if the output is no terminal.
[[nodiscard]] Terminal terminal_of_process(
    const std::function<std::optional<std::string>(std::string_view name)>& variable);

enum class Colour : std::uint8_t { Plain, Bold, Faint, Red, Green, Yellow, Blue, Magenta, Cyan };

// The text in that colour, or the text alone on a terminal without colours.
[[nodiscard]] std::string paint(const Terminal& terminal, Colour colour, std::string_view text);
// Green for what went well, red for what did not, yellow for what waits, blue for what runs.
[[nodiscard]] Colour colour_of_phase(std::string_view phase);

// Columns that the text takes: one per code point; escape sequences of colours take none.
[[nodiscard]] std::size_t display_width(std::string_view text);
// Cut to that many columns, with an ellipsis in place of the rest; whole if `columns` is 0. Colours are ended.
[[nodiscard]] std::string fit(std::string_view text, std::size_t columns);
// Broken between words into lines of at most that many columns (0: not at all), each after the first with the indent; a
// word that is longer than a line stays whole.
[[nodiscard]] std::string wrap(std::string_view text, std::size_t columns, std::string_view indent);
// Blanks added up to that many columns.
[[nodiscard]] std::string pad(std::string_view text, std::size_t columns);
// "[#####.....]" with `columns` between the brackets.
[[nodiscard]] std::string progress_bar(std::size_t done, std::size_t total, std::size_t columns);

}  // namespace basalt::cli
