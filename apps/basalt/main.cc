#include <iostream>
#include <string>
#include <vector>

#include "cli/cli.h"

int main(int argc, char** argv) {
  return basalt::cli::run(std::vector<std::string>(argv, argv + argc), std::cout, std::cerr);
}
