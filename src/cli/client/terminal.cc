#include "cli/client/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/strings.h"

namespace basalt::cli {
namespace {

constexpr std::size_t kUsualWidth = 80;
constexpr std::string_view kReset = "\x1b[0m";

std::string_view code_of(Colour colour) {
  switch (colour) {
    case Colour::Plain:
      return "";
    case Colour::Bold:
      return "\x1b[1m";
    case Colour::Faint:
      return "\x1b[2m";
    case Colour::Red:
      return "\x1b[31m";
    case Colour::Green:
      return "\x1b[32m";
    case Colour::Yellow:
      return "\x1b[33m";
    case Colour::Blue:
      return "\x1b[34m";
    case Colour::Magenta:
      return "\x1b[35m";
    case Colour::Cyan:
      return "\x1b[36m";
  }
  return "";
}

// Bytes of the escape sequence that the text begins with; 0 if it begins with none.
std::size_t escape_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  for (std::size_t i = 2; i < text.size(); ++i) {
    if (text[i] >= '@' && text[i] <= '~') return i + 1;
  }
  return text.size();
}

// Calls visit(piece, columns) for each code point and each escape sequence until it returns false.
template <class Visit>
void for_each_piece(std::string_view text, Visit visit) {
  while (!text.empty()) {
    std::size_t length = escape_length(text);
    const std::size_t columns = length == 0 ? 1 : 0;
    if (length == 0) length = std::max<std::size_t>(base::utf8_sequence_length(text), 1);
    if (!visit(text.substr(0, length), columns)) return;
    text.remove_prefix(length);
  }
}

}  // namespace

Terminal terminal_of_process(const std::function<std::optional<std::string>(std::string_view name)>& variable) {
  Terminal terminal;
  terminal.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  terminal.in_is_terminal = isatty(STDIN_FILENO) == 1;
  if (terminal.out_is_terminal) {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
      terminal.width = size.ws_col;
    } else {
      const auto columns = base::parse_uint64(variable("COLUMNS").value_or(""));
      terminal.width = columns && *columns > 0 ? static_cast<std::size_t>(*columns) : kUsualWidth;
    }
  }
  const bool is_dumb = variable("TERM").value_or("") == "dumb";
  const bool is_refused = !variable("NO_COLOR").value_or("").empty();
  const bool is_forced = variable("CLICOLOR_FORCE").value_or("0") != "0";
  terminal.has_colours = !is_refused && (is_forced || (terminal.out_is_terminal && !is_dumb));
  return terminal;
}

std::string paint(const Terminal& terminal, Colour colour, std::string_view text) {
  if (!terminal.has_colours || colour == Colour::Plain || text.empty()) return std::string(text);
  return base::join({code_of(colour), text, kReset}, "");
}

Colour colour_of_phase(std::string_view phase) {
  for (const std::string_view word : {"Completed", "Succeeded", "Succeed", "Open", "Ready", "ok"}) {
    if (phase == word) return Colour::Green;
  }
  for (const std::string_view word : {"Failed", "Terminated", "Aborted", "Error", "Closed", "Unknown", "failed"}) {
    if (phase == word) return Colour::Red;
  }
  for (const std::string_view word : {"Running", "Completing"}) {
    if (phase == word) return Colour::Blue;
  }
  return phase.empty() ? Colour::Plain : Colour::Yellow;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for_each_piece(text, [&width](std::string_view, std::size_t columns) {
    width += columns;
    return true;
  });
  return width;
}

std::string fit(std::string_view text, std::size_t columns) {
  if (columns == 0 || display_width(text) <= columns) return std::string(text);
  std::string result;
  std::size_t used = 0;
  bool has_colours = false;
  for_each_piece(text, [&](std::string_view piece, std::size_t width) {
    if (used + width > columns - 1) return false;
    used += width;
    has_colours = has_colours || width == 0;
    result += piece;
    return true;
  });
  result += "\u2026";
  if (has_colours) result += kReset;
  return result;
}

std::string wrap(std::string_view text, std::size_t columns, std::string_view indent) {
  if (columns == 0 || display_width(text) <= columns) return std::string(text);
  std::string result(text.substr(0, text.find_first_not_of(' ')));  // its own indent stays
  std::size_t used = result.size();
  bool is_first = true;
  for (const std::string_view word : base::split(text, ' ')) {
    if (word.empty()) continue;
    const std::size_t width = display_width(word);
    if (!is_first && used + 1 + width > columns) {
      result.append("\n").append(indent);
      used = indent.size();
    } else if (!is_first) {
      result += ' ';
      ++used;
    }
    is_first = false;
    result += word;
    used += width;
  }
  return result;
}

std::string pad(std::string_view text, std::size_t columns) {
  const std::size_t width = display_width(text);
  return std::string(text) + std::string(width < columns ? columns - width : 0, ' ');
}

std::string progress_bar(std::size_t done, std::size_t total, std::size_t columns) {
  const std::size_t filled = total == 0 ? 0 : std::min(columns, done * columns / total);
  return "[" + std::string(filled, '#') + std::string(columns - filled, '.') + "]";
}

}  // namespace basalt::cli
