# ruby record.rb < texts.json > ruby.txt: what to_f and to_i make of each text.
require "json"

puts "# String#to_f and String#to_i of Ruby #{RUBY_VERSION}"
JSON.parse($stdin.read).each do |text|
  puts "#{JSON.generate(text, ascii_only: true)} float #{text.to_f} int #{text.to_i}"
end
