"""What a column's name reveals, in the languages of many registers.

Names are split into words, at whatever is not a letter and at CamelCase; accents go.
"""

import re
import unicodedata
from functools import cache
from itertools import pairwise


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PEOPLE = _words("""
    firstname lastname fullname surname forename maidenname middlename givenname familyname
    nickname username initials vorname nachname familienname rufname zuname geburtsname prenom
    patronyme nombres apellido apellidos cognome sobrenome apelido voornaam achternaam fornavn
    etternavn efternavn fornamn efternamn etunimi sukunimi imie nazwisko jmeno prijmeni
    keresztnev vezeteknev prenume soyadi имя фамилия отчество фио 姓名 氏名 名前 이름 성명
""")
"""Words for the name of a person."""

CALLED = _words("""
    name names nom nome nombre naam navn namn nazwa nev nimi
""")
"""Words for the name of anything."""

FIRST_OR_LAST = _words("""
    first last middle given family maiden full father mother
""")
"""Words that make a name a person's; by themselves too, over text."""

ROLES = _words("""
    patient physician doctor surgeon nurse client customer employee staff teacher student
    pupil author director actor driver owner contact person defendant plaintiff judge lawyer
    witness guardian parent child spouse tenant landlord applicant beneficiary arzt aerztin
    kunde mitarbeiter lehrer schueler fahrer inhaber patientin medecin cliente paciente
    empleado
""")
"""Words for people in a role: what stands there is often a name."""

IDS = _words("""
    id ids uid uuid guid pid oid rownum rowid kennung ident identifier mrn matricule aktenzeichen
""")
NUMBERS = IDS | _words("""
    key nr no num number numero nummer index idx record rec serial ref reference case ticket
    order invoice folio akte kennzeichen dossier expediente
""")
"""Words for a number that stands for a record: surely, and if nearly all differ."""

OFFICIAL = _words("""
    ssn sin nin nhs passport ausweis steuernummer steuerid taxid tin cpf cnpj curp rfc dni nif
    nie codicefiscale bsn pesel personnummer insee aadhaar licence license plate kennzeichen
    vin iban bic konto kontonummer account kreditkarte creditcard card ccnum imei mac
""")
"""Words for numbers that an office, a bank or a maker gave to one person or thing."""

REACHED = _words("""
    email mail phone tel telephone mobile cellphone fax telefon telefonnummer handy mobil
    rufnummer telefono telefone celular courriel correo address addr adresse anschrift street
    strasse direccion indirizzo endereco rue calle
""")
"""Words for what reaches one person: mail, telephone, street."""

BIRTH = _words("""
    birth birthday birthdate birthyear dob yob bday born geburt geburtstag geburtsdatum
    geburtsjahr geboren geb naissance nacimiento nascita nascimento geboorte fodsel fodelse
    urodzenia narozeni syntyma рождения
""")
LATITUDE = _words("""
    lat latitude latitud breite breitengrad latitudine
""")
LONGITUDE = _words("""
    lon lng long longitude longitud laenge lange laengengrad langengrad longitudine
""")
GEO = _words("""
    geo gps geom geometry coord coords coordinate coordinates koordinate
""")
POSTAL = _words("""
    zip zipcode zip5 plz postal postcode postleitzahl codepostal cap cep pincode fips
""")
WRITTEN = _words("""
    comment comments remark remarks note notes description descriptions memo narrative freetext
    bemerkung bemerkungen anmerkung anmerkungen kommentar kommentare notiz notizen beschreibung
    commentaire remarque comentario comentarios observacion observaciones commento opmerking
""")
"""Words for what people write in their own words."""
COUNTED = _words("""
    age alter edad count counts anzahl n number num total sum hours days months years weeks
    size children kinder visits times rank score grade amount quantity qty balance price cost
    value
""")
"""Words for what was counted or measured: few whole numbers, and yet no code."""
MEASURED = COUNTED - {"n", "number", "num"}
"""Those that never stand for a number that was given, as in 'phone number'."""


@cache
def words_of(name: str) -> frozenset[str]:
    """Return the words of a column's name, joined pairs too: 'first name' is 'firstname'.

    >>> sorted(words_of("patientFirst_name2"))
    ['first', 'firstname', 'name', 'patient', 'patientfirst']
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", _plain(name))
    words = re.findall(r"[^\W\d_]+", apart.lower())
    pairs = [a + b for a, b in pairwise(words)]
    return frozenset([*words, *pairs])


def _plain(text: str) -> str:
    """Return text without accents; other scripts stay as they are."""
    apart = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(c for c in apart if not unicodedata.combining(c)))
