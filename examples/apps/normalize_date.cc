// normalize_date: written dates → ISO 8601, one per line.

#include "apps/date_model.h"
#include "apps/embedded_program.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using executorch::aten::ScalarType;
using executorch::extension::from_blob;

// As in models/characters.py: a token is an ASCII code.
constexpr int64_t kStart = 0x02;
constexpr int64_t kEnd = 0x03;
constexpr size_t kMaxTargetLength = 16;

// What a date can be refused for, as opposed to what can go wrong with the program.
struct NotADate : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class DateNormalizer {
 public:
  DateNormalizer()
      : program_(date_model_data, date_model_size),
        encode_(program_.load("encode")),
        decode_(program_.load("decode")),
        max_source_length_(encode_->input_size(0, 1)),
        state_(decode_->input_size(1)) {}

  // The date in `text` as the model reads it. Throws NotADate if it reads none.
  std::string normalize(const std::string& text) {
    std::vector<int64_t> source = tokens(text);
    encode_->execute({from_blob(source.data(), {1, length(source)}, ScalarType::Long)});

    auto memory = encode_->output(0);
    std::vector<executorch::aten::SizesType> memory_sizes(memory.sizes().begin(), memory.sizes().end());
    auto memory_input = from_blob(memory.mutable_data_ptr(), memory_sizes);
    std::fill(state_.begin(), state_.end(), 0.0f);
    int64_t previous = kStart;
    std::string answer;
    while (answer.size() < kMaxTargetLength) {
      decode_->execute({
          memory_input,
          from_blob(state_.data(), {1, length(state_)}),
          from_blob(&previous, {1}, ScalarType::Long),
      });
      auto scores = decode_->output(0);
      const float* score = scores.const_data_ptr<float>();
      previous = std::max_element(score, score + scores.numel()) - score;
      if (previous == kEnd) {
        break;
      }
      answer.push_back(static_cast<char>(previous));
      // A copy, as the output's memory is the method's own, which it may use for other things.
      const float* state = decode_->output(1).const_data_ptr<float>();
      std::copy(state, state + state_.size(), state_.begin());
    }
    if (!is_iso_date(answer)) {
      throw NotADate("not understood as a date");
    }
    return answer;
  }

 private:
  template <typename T>
  static executorch::aten::SizesType length(const std::vector<T>& values) {
    return static_cast<executorch::aten::SizesType>(values.size());
  }

  std::vector<int64_t> tokens(const std::string& text) const {
    if (text.empty() || text.size() > max_source_length_) {
      throw NotADate("a date has 1 to " + std::to_string(max_source_length_) + " characters");
    }
    if (!std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x80 && std::isprint(c); })) {
      throw NotADate("a date is printable ASCII");
    }
    return {text.begin(), text.end()};
  }

  static bool is_iso_date(const std::string& text) {
    const std::string shape = "dddd-dd-dd";
    return std::equal(text.begin(), text.end(), shape.begin(), shape.end(), [](unsigned char c, char kind) {
      return kind == 'd' ? std::isdigit(c) != 0 : c == kind;
    });
  }

  examples::EmbeddedProgram program_;
  std::unique_ptr<examples::LoadedMethod> encode_;
  std::unique_ptr<examples::LoadedMethod> decode_;
  size_t max_source_length_;
  std::vector<float> state_;
};

// Prints the answer, or why there is none; true for an answer.
bool answer(DateNormalizer& normalizer, const std::string& text) {
  try {
    std::cout << normalizer.normalize(text) << '\n';
    return true;
  } catch (const NotADate& error) {
    std::cout.flush();
    std::cerr << "normalize_date: \"" << text << "\": " << error.what() << '\n';
    return false;
  }
}

void print_usage(std::ostream& out) {
  out << "usage: normalize_date [DATE ...]\n"
         "Prints each written date as ISO 8601; without arguments, each line of standard input.\n"
         "Exit status: 0, 1 if something is no date, 2 if the program or its output fails.\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 1 && (arguments[0] == "--help" || arguments[0] == "-h")) {
    print_usage(std::cout);
    return 0;
  }
  try {
    DateNormalizer normalizer;
    bool all_answered = true;
    for (const std::string& text : arguments) {
      all_answered &= answer(normalizer, text);
    }
    if (arguments.empty()) {
      std::string line;
      while (std::getline(std::cin, line)) {
        all_answered &= answer(normalizer, line);
      }
    }
    std::cout.flush();
    if (!std::cout) {
      std::cerr << "normalize_date: cannot write the answers\n";
      return 2;
    }
    return all_answered ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "normalize_date: " << error.what() << '\n';
    return 2;
  }
}
