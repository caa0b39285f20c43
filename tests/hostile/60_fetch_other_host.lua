-- row: 60
-- where: fetch
-- expect: error
-- says: must not have '//' in it
return { a = fence.http('storage', '//other.example.com/') }
