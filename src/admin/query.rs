//! The parameters behind the path of a page. Values are bytes: keys of objects need not be text.

/// The value of a parameter as it stands there; the first one if it is repeated.
pub(crate) fn raw<'a>(query: Option<&'a str>, name: &str) -> Option<&'a str> {
    query?.split('&').find_map(|pair| match pair.split_once('=') {
        Some((key, value)) => (key == name).then_some(value),
        None => (pair == name).then_some(""),
    })
}

/// The value of a parameter, decoded.
pub(crate) fn decoded(query: Option<&str>, name: &str) -> Option<Vec<u8>> {
    raw(query, name).map(decode)
}

/// The value of a parameter that is text.
pub(crate) fn text(query: Option<&str>, name: &str) -> Option<String> {
    let bytes = decoded(query, name)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Undoes the encoding of forms: `%41` is a byte, `+` is a blank. What is no such thing stays.
fn decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hexadecimal = match byte {
            b'%' => bytes.get(at + 1).zip(bytes.get(at + 2)),
            _ => None,
        };
        match hexadecimal.and_then(|(high, low)| Some(digit(*high)? << 4 | digit(*low)?)) {
            Some(value) => {
                decoded.push(value);
                at += 3;
            }
            None => {
                decoded.push(if byte == b'+' { b' ' } else { byte });
                at += 1;
            }
        }
    }
    decoded
}

fn digit(letter: u8) -> Option<u8> {
    char::from(letter).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_found_by_its_whole_name() {
        let query = Some("keys=1&key=2&key=3&empty=&bare");
        assert_eq!(raw(query, "key"), Some("2"));
        assert_eq!((raw(query, "empty"), raw(query, "bare")), (Some(""), Some("")));
        assert_eq!((raw(query, "ke"), raw(None, "key")), (None, None));
    }

    #[test]
    fn encoded_bytes_need_not_be_text_and_what_is_not_encoded_stays() {
        assert_eq!(decode("a%2Fb+c%ff"), b"a/b c\xff");
        assert_eq!(decode("%"), b"%");
        assert_eq!(decode("%4"), b"%4");
        assert_eq!(decode("%zz%+1é"), "%zz% 1é".as_bytes());
    }
}
