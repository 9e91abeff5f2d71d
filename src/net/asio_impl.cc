// The non-template parts of Asio and Beast, compiled once (BOOST_*_SEPARATE_COMPILATION in CMakeLists.txt).
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
