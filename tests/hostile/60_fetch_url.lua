-- row: 60
-- where: fetch
-- expect: error
-- says: must begin with '/'
return { a = fence.http('storage', 'http://other.example.com/') }
